"""What other frameworks load: the transport for kombu, and so for Celery, and the data source for Spark."""
