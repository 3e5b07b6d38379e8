"""What is in deploy/, built, run and judged by the tools of those who will use it (`tox -e deploy`)."""
