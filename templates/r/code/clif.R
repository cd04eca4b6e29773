# This site's CLIF tables: who is in the cohort, and the features of each stay. Base R for csv
# tables; parquet needs the package arrow.
#
# A stay is the first ICU stay of an adult's hospitalization. Features cover its first hours, as
# shared/feature_schema.json says: each names a table, a category and a statistic.

PHI <- "output/intermediate_phi"

json_text <- function(text, name) {
  found <- regmatches(text, regexec(paste0('"', name, '"[[:space:]]*:[[:space:]]*"?([^",}]*)'), text))
  vapply(found, function(match) if (length(match) == 2) match[2] else NA_character_, "")
}

read_lines <- function(path) readLines(path, encoding = "UTF-8", warn = FALSE)

# One row a feature; the schema has one feature a line.
read_schema <- function() {
  lines <- read_lines("shared/feature_schema.json")
  features <- grep('"name"', lines, value = TRUE)
  text <- paste(lines, collapse = "\n")
  list(
    label = json_text(text, "label"),
    hours = as.numeric(json_text(text, "window_hours")),
    features = data.frame(
      name = json_text(features, "name"), table = json_text(features, "table"),
      category = tolower(json_text(features, "category")), stat = json_text(features, "stat"),
      low = as.numeric(json_text(features, "low")), high = as.numeric(json_text(features, "high"))
    )
  )
}

# config/config.json under the names of the CLIF template; other projects' names are understood.
site_config <- function() {
  text <- sub("^\ufeff", "", paste(read_lines("config/config.json"), collapse = "\n"))
  either <- function(...) {
    values <- vapply(c(...), function(name) json_text(text, name), "")
    values[!is.na(values) & values != ""][1]
  }
  kind <- either("filetype", "file_type")
  folder <- gsub("\\\\", "/", either("data_directory", "tables_path"), fixed = TRUE)
  list(data_directory = folder, filetype = if (is.na(kind)) "parquet" else kind)
}

# The columns of the table clif_<name>: ids as text, times in UTC.
read_table <- function(config, name, columns) {
  path <- file.path(config$data_directory, paste0("clif_", name, ".", config$filetype))
  if (!file.exists(path)) stop("the table ", basename(path), " is not in the data folder")
  if (config$filetype == "parquet") {
    if (!requireNamespace("arrow", quietly = TRUE)) stop("parquet tables need install.packages(\"arrow\")")
    table <- as.data.frame(arrow::read_parquet(path, col_select = columns))
  } else {
    table <- read.csv(path, colClasses = "character", na.strings = c("", "NA"), fileEncoding = "UTF-8-BOM")[columns]
  }
  for (column in columns) {
    if (grepl("_id$", column)) table[[column]] <- as.character(table[[column]])
    if (grepl("_dttm$", column)) table[[column]] <- as_time(table[[column]])
  }
  table
}

# All times of a site are of one zone, so only their differences count.
as_time <- function(values) {
  if (inherits(values, "POSIXct")) return(values)
  plain <- sub("T", " ", sub("(Z|[+-][0-9]{2}:?[0-9]{2})$", "", values))
  as.POSIXct(plain, tz = "UTC", format = "%Y-%m-%d %H:%M:%OS")
}

# 0 to 99, the same for the same patient on every machine: nobody is trained on and held out.
split_number <- function(patient_id) {
  vapply(patient_id, function(id) {
    number <- 0
    for (byte in as.integer(charToRaw(enc2utf8(id)))) number <- (number * 31 + byte) %% 1000003
    number %% 100
  }, 0, USE.NAMES = FALSE)
}

# One row a stay: hospitalization_id, start, split, age, sex_male and the label.
find_stays <- function(config, schema) {
  columns <- c("patient_id", "hospitalization_id", "age_at_admission", "discharge_category")
  admissions <- read_table(config, "hospitalization", columns)
  sexes <- read_table(config, "patient", c("patient_id", "sex_category"))
  places <- read_table(config, "adt", c("hospitalization_id", "in_dttm", "location_category"))
  places <- places[tolower(places$location_category) %in% "icu", ]
  places <- places[order(places$hospitalization_id, places$in_dttm), ]
  places <- places[!duplicated(places$hospitalization_id), ]

  discharge <- tolower(admissions$discharge_category)
  age <- as.numeric(admissions$age_at_admission)
  known <- !is.na(discharge) & discharge != "missing" & !is.na(age) & age >= 18
  admissions <- admissions[known & admissions$hospitalization_id %in% places$hospitalization_id, ]
  admissions <- admissions[order(admissions$hospitalization_id, method = "radix"), ]
  sex <- tolower(sexes$sex_category[match(admissions$patient_id, sexes$patient_id)])
  stays <- data.frame(
    hospitalization_id = admissions$hospitalization_id,
    start = places$in_dttm[match(admissions$hospitalization_id, places$hospitalization_id)],
    split = split_number(admissions$patient_id),
    age = as.numeric(admissions$age_at_admission),
    sex_male = as.numeric(sex == "male")
  )
  stays[[schema$label]] <- as.numeric(tolower(admissions$discharge_category) == "expired")
  stays
}

# A table as hospitalization_id, time, category, value.
measurements <- function(config, table) {
  long <- function(time, category, value = NULL) {
    rows <- read_table(config, table, c("hospitalization_id", time, category, value))
    number <- if (is.null(value)) 1 else as.numeric(rows[[value]])
    data.frame(id = rows$hospitalization_id, time = rows[[time]], category = tolower(rows[[category]]), value = number)
  }
  switch(table,
    vitals = long("recorded_dttm", "vital_category", "vital_value"),
    labs = long("lab_result_dttm", "lab_category", "lab_value_numeric"),
    patient_assessments = long("recorded_dttm", "assessment_category", "numerical_value"),
    medication_admin_continuous = long("admin_dttm", "med_category"),
    respiratory_support = {
      columns <- c("hospitalization_id", "recorded_dttm", "device_category", "fio2_set", "peep_set")
      rows <- read_table(config, table, columns)
      part <- function(category, value) {
        data.frame(id = rows$hospitalization_id, time = rows$recorded_dttm, category = category, value = value)
      }
      rbind(
        part(tolower(rows$device_category), 1),
        part("fio2_set", as.numeric(rows$fio2_set)), part("peep_set", as.numeric(rows$peep_set))
      )
    },
    stop("code/clif.R does not know the table ", table)
  )
}

# The cohort: split, the schema's features in its order, the label. One row a stay, no id.
add_features <- function(stays, config, schema) {
  features <- schema$features
  for (table in setdiff(unique(features$table), c("hospitalization", "patient"))) {
    rows <- measurements(config, table)
    start <- stays$start[match(rows$id, stays$hospitalization_id)]
    hours <- as.numeric(difftime(rows$time, start, units = "hours"))
    rows <- rows[!is.na(hours) & hours >= 0 & hours < schema$hours, ]
    for (number in which(features$table == table)) {
      stays[[features$name[number]]] <- statistic(rows, features[number, ], stays$hospitalization_id)
    }
  }
  stays[c("split", features$name, schema$label)]
}

# One feature, a value for each stay; values outside the plausible range do not count.
statistic <- function(rows, feature, ids) {
  mine <- rows[rows$category %in% feature$category, ]
  if (feature$stat == "any") return(as.numeric(ids %in% mine$id))
  mine <- mine[!is.na(mine$value) & mine$value >= feature$low & mine$value <= feature$high, ]
  values <- tapply(mine$value, mine$id, match.fun(feature$stat))
  as.numeric(values[ids])
}
