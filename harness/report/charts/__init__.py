"""The charts of a report's page, as Vega-Lite specifications made with Altair (the extra `report`)."""
