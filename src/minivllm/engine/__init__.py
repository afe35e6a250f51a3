"""From a schedule to text: batches, the model runner, sampling, drafts, and the engine that ties them together."""
