"""memberlist's wire format: SWIM's headers as the frames of HashiCorp's memberlist and Serf, and back."""
