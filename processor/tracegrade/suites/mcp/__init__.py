"""The tools of an MCP server, for a suite or for a rule.

The MCP SDK (the extra ``mcp``) speaks with the server: by streamable HTTP, by SSE, or over a program's standard
streams. Over HTTP it goes to addresses that were checked, and to no other: `address` looks a name up once and refuses
what must not be asked, `transport` is the HTTP that the SDK is given, which connects to what was checked, follows no
redirect and has bounds for bytes and time. `client` asks, `tools` makes a rule or a suite of the answer.
"""
