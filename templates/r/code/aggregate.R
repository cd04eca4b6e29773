# Hook `aggregate`: federated averaging, each site weighted by its number of training rows.
# Sites in the order of their names, additions element by element, one division at the end.
source("code/common.R")

site_dir <- argument("SITE_DIR")
sites <- sort(list.dirs(site_dir, full.names = FALSE, recursive = FALSE), method = "radix")
total <- 0
total_loss <- 0
sums <- 0
first <- NULL
for (site in sites) {
  for (pass in sort(list.files(file.path(site_dir, site), pattern = "^pass_"), method = "radix")) {
    folder <- file.path(site_dir, site, pass)
    seal <- read_text(file.path(folder, "metrics.json"))
    count <- json_number(seal, "n_samples", NA)
    model <- read_model(file.path(folder, "model.csv"))
    if (is.null(first)) first <- model
    if (!identical(model[SHARED], first[SHARED])) stop("site ", site, " has another preprocessing than the others")
    sums <- sums + count * weights_of(model)
    total <- total + count
    total_loss <- total_loss + count * json_number(seal, "loss", 0)
  }
}
if (total == 0) stop("no site trained on a single row: there is nothing to average")
first$weight <- digits(sums / total)
write_model(first, argument("OUT_PATH"))
write_metrics(list(n_samples = total, loss = total_loss / total))
