"""The broker's numbers as metrics, in the text format of Prometheus."""
