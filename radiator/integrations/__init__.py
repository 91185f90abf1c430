"""What other frameworks load: the transport of kombu, and so of Celery; and the data source of Spark."""
