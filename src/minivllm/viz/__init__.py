"""Pictures of what the engine decides; each has a text twin."""
