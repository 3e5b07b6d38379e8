"""A broker as one node of a federation of gmqttd (link.py), over gRPC and Serf (grpc.py)."""
