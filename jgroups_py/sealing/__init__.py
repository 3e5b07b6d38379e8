"""Keys, keyrings and the primitives of cryptography; nothing else in the package calls a library of ciphers for frames.

Pure: random bytes come from the port `model.secrets.Secrets`. Ring 1.
"""
