# Hook `train`: trains from the global model; in pass 0, at the lead, makes the first one.
source("code/common.R")

# Held-out AUROC of a model this site would have had alone (R's own glm); fitted once, then remembered.
local_baseline <- function(training, held) {
  memory <- if (argument("STATE_DIR") == "") "" else file.path(argument("STATE_DIR"), "local_auroc.txt")
  if (memory != "" && file.exists(memory)) return(as.numeric(readLines(memory)))
  own <- first_model(training$x, training$y)
  weights <- suppressWarnings(glm.fit(prepare(own, training$x), training$y, family = binomial()))$coefficients
  own$weight <- digits(ifelse(is.na(weights), 0, weights))
  result <- auroc(held$y, log_odds(own, prepare(own, held$x)))
  if (memory != "") {
    dir.create(dirname(memory), recursive = TRUE, showWarnings = FALSE)
    writeLines(digits(result), memory)
  }
  result
}

cohort <- read_cohort(argument("DATA_DIR"))
training <- part(cohort, held_out = FALSE)
held <- part(cohort, held_out = TRUE)

if (length(training$y) == 0) {
  if (argument("GLOBAL_PATH") == "") stop("the lead has no training rows, so there is no first model")
  write_model(read_model(argument("GLOBAL_PATH")), argument("OUT_PATH"))
  write_metrics(list(n_samples = 0))
} else if (argument("GLOBAL_PATH") == "") {
  model <- first_model(training$x, training$y)
  write_model(model, argument("OUT_PATH"))
  own_loss <- loss(model, prepare(model, training$x), training$y)
  write_metrics(list(n_samples = length(training$y), loss = own_loss))
} else {
  base <- read_model(argument("GLOBAL_PATH"))
  z <- prepare(base, training$x)
  held_z <- prepare(base, held$x)
  model <- fit(base, z, training$y, steps = hyperparameter("local_steps", 10))
  write_model(model, argument("OUT_PATH"))
  write_metrics(list(
    n_samples = length(training$y),
    auroc = auroc(held$y, log_odds(model, held_z)),
    base_auroc = auroc(held$y, log_odds(base, held_z)),
    local_auroc = local_baseline(training, held),
    loss = loss(model, z, training$y)
  ))
}
