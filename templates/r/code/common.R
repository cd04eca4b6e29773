# What the hooks share: the cohort, the model file, logistic regression. Base R alone.
#
# Hooks run in the project folder. Their arguments arrive as STITCH_* variables; an absent one is "".
#
# Model file: model.csv, plain text with one row for each feature and one for "(bias)":
#   feature  its name; the order is that of shared/feature_schema.json
#   median   fills missing values       } from the lead's cohort in pass 0 and the same for every
#   center   subtracted                 } site ever after; carried along as text, so that no digit
#   scale    divided by                 } changes on the way
#   weight   the coefficient, with 17 digits

SHARED <- c("feature", "median", "center", "scale")
HELD_OUT_BELOW <- 25  # split < 25: a quarter of the admissions is never trained on
BUILT <- "output/intermediate_phi/cohort.csv"

argument <- function(name) Sys.getenv(paste0("STITCH_", name))

read_text <- function(path) paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n")

# The number called `name` in JSON text, or `default`: enough for our own flat files.
json_number <- function(text, name, default) {
  found <- regmatches(text, regexec(paste0('"', name, '"[[:space:]]*:[[:space:]]*(-?[0-9.eE+-]+)'), text))[[1]]
  if (length(found) == 2) as.numeric(found[2]) else default
}

hyperparameter <- function(name, default) json_number(argument("CONFIG"), name, default)

# n_samples and finite numbers, as one flat JSON object.
write_metrics <- function(metrics) {
  values <- vapply(metrics, function(value) sprintf("%.17g", value), "")
  text <- paste0("{", paste0('"', names(metrics), '": ', values, collapse = ", "), "}")
  writeLines(text, argument("METRICS_PATH"), useBytes = TRUE)
}

feature_names <- function() {
  text <- read_text("shared/feature_schema.json")
  sub('.*"([^"]+)"$', "\\1", regmatches(text, gregexpr('"name"[[:space:]]*:[[:space:]]*"[^"]+"', text))[[1]])
}

# The rows that code/01_features.R built, or else the demo's: `x` with NA where missing, `y`, `held_out`.
read_cohort <- function(data_dir) {
  path <- if (file.exists(BUILT)) BUILT else file.path(data_dir, "cohort.csv")
  if (!file.exists(path)) stop("no cohort.csv: run code/00_cohort.R and code/01_features.R first")
  table <- read.csv(path, na.strings = c("nan", "NA", ""), check.names = FALSE, fileEncoding = "UTF-8-BOM")
  columns <- names(table)[-c(1, ncol(table))]
  if (!identical(columns, feature_names())) {
    stop("cohort.csv has other columns, or another order, than shared/feature_schema.json")
  }
  list(x = as.matrix(table[columns]), y = table[[ncol(table)]], held_out = table$split < HELD_OUT_BELOW)
}

part <- function(cohort, held_out) {
  rows <- if (held_out) cohort$held_out else !cohort$held_out
  list(x = cohort$x[rows, , drop = FALSE], y = cohort$y[rows])
}

digits <- function(values) sprintf("%.17g", values)

# Shared preprocessing from these rows, weights of zero, the bias at the event rate.
first_model <- function(x, y) {
  median <- apply(x, 2, median, na.rm = TRUE)
  median[is.na(median)] <- 0  # a column that this site never measured
  filled <- fill(x, median)
  spread <- apply(filled, 2, sd)
  rate <- min(max(mean(y), 1e-6), 1 - 1e-6)
  data.frame(
    feature = c("(bias)", colnames(x)),
    median = c("0", digits(median)),
    center = c("0", digits(colMeans(filled))),
    scale = c("1", digits(ifelse(spread > 0, spread, 1))),
    weight = c(digits(log(rate / (1 - rate))), rep("0", ncol(x)))
  )
}

read_model <- function(path) {
  model <- read.csv(path, colClasses = "character", check.names = FALSE, fileEncoding = "UTF-8")
  if (!identical(names(model), c(SHARED, "weight"))) stop("not a model.csv of this project")
  if (!identical(model$feature, c("(bias)", feature_names()))) {
    stop("the model was trained on other features than shared/feature_schema.json names")
  }
  if (!all(is.finite(as.numeric(model$weight)))) stop("the model holds a weight that is not a finite number")
  model
}

# The same bytes for the same model on every system: line feeds, no quotes, C locale digits.
write_model <- function(model, path) {
  out <- file(path, "wb")
  on.exit(close(out))
  write.table(model, out, sep = ",", quote = FALSE, row.names = FALSE, eol = "\n")
}

fill <- function(x, median) {
  holes <- which(is.na(x), arr.ind = TRUE)
  x[holes] <- median[holes[, 2]]
  x
}

# Filled, centred, scaled, cut at 5 deviations, with a first column of ones for the bias.
prepare <- function(model, x) {
  numbers <- lapply(model[-1, c("median", "center", "scale")], as.numeric)
  z <- sweep(sweep(fill(x, numbers$median), 2, numbers$center), 2, numbers$scale, "/")
  cbind(1, pmin(pmax(z, -5), 5))
}

weights_of <- function(model) as.numeric(model$weight)

log_odds <- function(model, z) as.vector(z %*% weights_of(model))

# Mean log loss in nats.
loss <- function(model, z, y) {
  score <- log_odds(model, z)
  mean(pmax(score, 0) + log1p(exp(-abs(score))) - y * score)
}

# Gradient steps with momentum on the whole cohort; the bias is not shrunk.
fit <- function(model, z, y, steps) {
  rate <- hyperparameter("learning_rate", 0.12)
  shrink <- c(0, rep(hyperparameter("l2", 0.002), ncol(z) - 1))
  weights <- weights_of(model)
  velocity <- 0 * weights
  for (step in seq_len(steps)) {
    error <- plogis(as.vector(z %*% weights)) - y
    velocity <- 0.8 * velocity - rate * (as.vector(crossprod(z, error)) / length(y) + shrink * weights)
    weights <- weights + velocity
  }
  model$weight <- digits(weights)
  model
}

# Area under the ROC curve (ties count half); 0.5 where only one class is present.
auroc <- function(y, score) {
  positives <- sum(y == 1)
  negatives <- length(y) - positives
  if (positives == 0 || negatives == 0) return(0.5)
  (sum(rank(score)[y == 1]) - positives * (positives + 1) / 2) / (positives * negatives)
}
