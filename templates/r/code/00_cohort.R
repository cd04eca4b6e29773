# Step 0: which stays are in the cohort. Writes output/intermediate_phi/stays.csv (stays here).
source("code/clif.R")

schema <- read_schema()
stays <- find_stays(site_config(), schema)
dir.create(PHI, recursive = TRUE, showWarnings = FALSE)
stays$start <- format(stays$start, "%Y-%m-%d %H:%M:%OS6")
write.csv(stays, file.path(PHI, "stays.csv"), row.names = FALSE, na = "", fileEncoding = "UTF-8")
cat(nrow(stays), "stays,", sum(stays[[schema$label]]), "deaths\n")
