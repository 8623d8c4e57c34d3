"""What torchlean gives where libraries are known to differ or fail: checks as data, run on every provider."""
