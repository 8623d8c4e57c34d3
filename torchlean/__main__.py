"""`python -m torchlean` is the command `torchlean`."""

from torchlean.cli.main import main

if __name__ == "__main__":
    main()
