"""Several real nodes: processes, faults between them, clients at all of them, and books of what these say and hear."""
