declare module '@nexus/engine' {
  interface EventMap {
    /** Asks whatever works for a turn to stop. The turn still ends, with the reason in `error` of its `agent.turn.end`. */
    'agent.turn.cancel': { _schema_version?: 1; turn_id: string; session_id: string; reason?: string }
    /** A tool that models may call; emitted at every boot by the plugin that answers `tool.invoke` of that name. */
    'tool.register': { _schema_version?: 1; name: string; description: string; parameters: object }
  }
}

/** Before every other handler: whoever works for a turn finds its signal there. */
export const FIRST = -1_000_000
