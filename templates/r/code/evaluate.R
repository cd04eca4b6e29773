# Hook `evaluate`: scores a global model on the held-out rows.
source("code/common.R")

model <- read_model(argument("GLOBAL_PATH"))
held <- part(read_cohort(argument("DATA_DIR")), held_out = TRUE)
z <- prepare(model, held$x)
write_metrics(list(
  n_samples = length(held$y),
  auroc = auroc(held$y, log_odds(model, z)),
  loss = loss(model, z, held$y)
))
