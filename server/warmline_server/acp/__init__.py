"""The agent: `warmline acp` speaks the Agent Client Protocol, and its model is the workspace's variant."""
