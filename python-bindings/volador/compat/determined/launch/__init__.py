"""Commands that start the processes of a trial on its nodes: `python3 -m determined.launch.torch_distributed -- python3 train.py`."""
