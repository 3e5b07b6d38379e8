"""Lag: how long messages took from their origin to each site, with the clocks' offset estimated and stated."""
