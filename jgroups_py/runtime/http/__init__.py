"""HTTP/1.1 for operators' endpoints: the values of a request and its answer, and a bounded server on asyncio."""
