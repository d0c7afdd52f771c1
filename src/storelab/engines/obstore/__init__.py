"""The engine `obstore`."""
