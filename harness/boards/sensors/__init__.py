"""What a board says of itself while it measures: clocks, temperature, power, throttling."""
