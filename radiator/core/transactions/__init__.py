"""Prepared transactions: kept under a name until they are committed or aborted, then delivered."""
