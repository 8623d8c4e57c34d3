"""Graph to graph and function to function: derivatives, batching, lowering."""
