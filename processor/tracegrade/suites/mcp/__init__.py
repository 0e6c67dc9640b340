"""The tools of an MCP server, for a suite or for a rule.

An http(s) address is asked by a small client of our own: streamable HTTP first, then SSE, the older transport. It goes
to addresses that were checked, and to no other: `address` looks a name up once and refuses what must not be asked,
`connection` connects to what was checked, follows no redirect and has bounds for bytes and time, `transports` are the
two ways to speak, `client` what is said. A server that is a program (``stdio:COMMAND``) is started and asked by the MCP
SDK, in `program`.
"""
