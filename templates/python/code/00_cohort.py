"""Step 0: which stays are in the cohort. Writes output/intermediate_phi/stays.parquet (stays here)."""

import clif


def main():
    config = clif.site_config()
    stays = clif.find_stays(config["data_directory"], filetype=config["filetype"])
    clif.PHI.mkdir(parents=True, exist_ok=True)
    stays.write_parquet(clif.PHI / "stays.parquet")
    print(f"{len(stays)} stays, {int(stays[clif.SCHEMA['label']].sum())} deaths")


if __name__ == "__main__":
    main()
