/** What the process ends with. */
export const EXIT = {
  ok: 0,
  /** It ran and the answer is bad: something differs, a check failed, something could not be done. */
  failed: 1,
  /** The command line or the configuration is wrong; nothing was touched. */
  usage: 2,
  /** Nothing was changed: it needs `--yes`, or the session has a live owner. */
  refused: 3,
  /** Ctrl-C ended it. */
  stopped: 130,
} as const

/** One of {@link EXIT}. */
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
