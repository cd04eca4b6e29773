# Hook `aggregate`: federated averaging, each site weighted by its number of training rows.
# The new global is the old one plus the mean of what each site's training changed, taken against the global
# that this site started from. Under policy.require = "buffered" a stale pass counts less, by the policy's weight.
# Sites in the order of their names, additions element by element, one division at the end.
source("code/common.R")

site_dir <- argument("SITE_DIR")
sites <- sort(list.dirs(site_dir, full.names = FALSE, recursive = FALSE), method = "radix")
total <- 0
total_loss <- 0
moved <- 0
current <- read_model(argument("GLOBAL_PATH"))
for (site in sites) {
  for (pass in sort(list.files(file.path(site_dir, site), pattern = "^pass_"), method = "radix")) {
    folder <- file.path(site_dir, site, pass)
    seal <- read_text(file.path(folder, "metrics.json"))
    said <- read_text(file.path(folder, "round.json"))
    count <- json_number(seal, "n_samples", NA)
    model <- read_model(file.path(folder, "model.csv"))
    if (!identical(model[SHARED], current[SHARED])) stop("site ", site, " has another preprocessing than the global")
    began <- sprintf("pass_%03d", as.integer(json_number(said, "base_pass", NA)))
    base <- read_model(file.path(argument("BASES_DIR"), began, "model.csv"))
    moved <- moved + count * json_number(said, "weight", 1) * (weights_of(model) - weights_of(base))
    total <- total + count
    total_loss <- total_loss + count * json_number(seal, "loss", 0)
  }
}
if (total == 0) stop("no site trained on a single row: there is nothing to average")
# The policy's weights do not divide: where every pass is stale, the step shall be smaller.
current$weight <- digits(weights_of(current) + moved / total)
write_model(current, argument("OUT_PATH"))
write_metrics(list(n_samples = total, loss = total_loss / total))
