"""HTTP/1.1, for browsers and machines: what a request is, and what it is answered."""
