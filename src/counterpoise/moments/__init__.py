"""Count, mean and scatter of each class: accumulate, decay, downdate, resize."""
