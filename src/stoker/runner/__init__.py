"""StepPlan in, StepResult out: the only room that runs a model."""
