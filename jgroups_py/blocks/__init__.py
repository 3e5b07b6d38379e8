"""Building blocks above a channel: request/response (rpc)."""
