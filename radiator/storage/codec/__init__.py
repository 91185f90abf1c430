"""The bytes of what is stored (docs/FORMAT.md), without any read or write of them."""
