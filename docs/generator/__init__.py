"""What the documentation's generated parts hold, made from the code they describe."""
