"""`python -m stitch.cli`: the same as the script `clif-stitch`."""

from stitch.cli.app import main

if __name__ == "__main__":
    main()
