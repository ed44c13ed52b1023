"""A board's sensors during a measurement: clocks, temperature, power, throttling."""
