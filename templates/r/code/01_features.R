# Step 1: the features of each stay. Writes output/intermediate_phi/cohort.csv (stays here).
#
# The hooks read that file. It holds no identifier, but it is patient data all the same.
source("code/clif.R")

schema <- read_schema()
stays <- read.csv(file.path(PHI, "stays.csv"), colClasses = c(hospitalization_id = "character"))
stays$start <- as_time(stays$start)
cohort <- add_features(stays, site_config(), schema)
write.csv(cohort, file.path(PHI, "cohort.csv"), row.names = FALSE, na = "nan", quote = FALSE)
cat(nrow(cohort), "stays,", ncol(cohort) - 2, "features\n")
empty <- names(cohort)[vapply(cohort, function(values) all(is.na(values)), TRUE)]
if (length(empty) > 0) {
  cat("never measured at this site (check the categories in your tables):", paste(empty, collapse = ", "), "\n")
}
