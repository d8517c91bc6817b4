"""`python -m deltasql.cli` is `deltasql`."""

from deltasql.cli.main import main

if __name__ == "__main__":
    main()
