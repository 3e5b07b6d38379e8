"""HTTP/1.1 for operators' endpoints: a request and its answer as values, a bounded server on asyncio, a thread."""
