"""HTTP/1.1, for browsers and machines: how requests are read, what resources there are, and how responses are
written.
"""
