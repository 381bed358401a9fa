/** What every key says of itself. */
interface KeyFacts {
  /**
   * Whether a resumed session brings its value, or the host decides whatever the session's stored configuration says. A
   * tool can write into a session's tree, so a `session` key must never reach beyond that session.
   */
  readonly whose: 'host' | 'session'
  /** What it is for, with units; the text of the reference page. */
  readonly doc: string
  /** Its name in {@link EngineConfig}. Default: the key in camelCase. */
  readonly as?: string
}

/** One key of the configuration. */
export type ConfigKey = KeyFacts &
  (
    | {
        readonly kind: 'string'
        readonly default: string
        /** A regular expression, and what a value must be that it doesn't match. */
        readonly pattern?: string
        readonly must?: string
      }
    | { readonly kind: 'path'; readonly default: string }
    | { readonly kind: 'boolean'; readonly default: boolean }
    /** `mebibytes` are written in MiB and given in bytes. */
    | {
        readonly kind: 'integer' | 'number' | 'mebibytes'
        readonly default: number
        readonly min: number
        readonly max: number
      }
    /** Given in milliseconds. */
    | { readonly kind: 'duration'; readonly default: string; readonly min: string; readonly max: string }
    /** Words of `notYet` are known and refused: what they name is not built. */
    | {
        readonly kind: 'choice'
        readonly of: readonly string[]
        readonly notYet?: readonly string[]
        readonly default: string
      }
    | { readonly kind: 'list'; readonly of: string; readonly default?: readonly string[] }
    /** Handed on as it is written. */
    | { readonly kind: 'map' }
    /** An old name: `values` gives what the key `by`, in the same block, is set to. Read with a warning. */
    | { readonly kind: 'replaced'; readonly by: string; readonly values: Readonly<Record<string, string>> }
  )

/** Keys and blocks by name; the key `*` stands for every name that is not listed. */
export interface ConfigBlock {
  readonly kind?: never
  readonly [name: string]: ConfigKey | ConfigBlock | undefined
}

/**
 * Every key of the configuration. Types, validation, defaults, the reference page, the JSON Schema and what a resumed
 * session may bring are derived from this table: adding a key is adding a line here.
 *
 * @see docs/reference/configuration.md
 */
// One key in two lines: what is so about it, and what it is for.
// prettier-ignore
export const CONFIG_KEYS = {
  core: {
    log_level: { kind: 'choice', of: ['trace', 'debug', 'info', 'warn', 'error'], default: 'info', whose: 'host',
      doc: 'The least severe lines that are logged.' },
    // No timer can wait for more than 24 whole days.
    tick_interval: { kind: 'duration', default: '1s', min: '10ms', max: '24d', as: 'tickIntervalMs', whose: 'host',
      doc: 'Time between two `core.tick` events.' },
    agent_id: { kind: 'string', default: '', pattern: '^$|^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$', must: 'be up to 128 of A-Z a-z 0-9 _ - and start with a letter or digit: it names a directory', whose: 'host',
      doc: 'Whose agent-scope storage is used. Empty: agent scope is app scope.' },
    sessions: {
      root: { kind: 'path', default: '~/.nexus/sessions', whose: 'host',
        doc: 'Directory of the session trees.' },
      retention: { kind: 'duration', default: '30d', min: '0', max: '36500d', as: 'retentionMs', whose: 'host',
        doc: 'Age from which ended sessions are removed from this disk; `0` removes none. While the key is not written, only sessions that a store holds are removed.' },
      id_format: { kind: 'choice', of: ['timestamp', 'datetime_short', 'hex'], default: 'timestamp', whose: 'host',
        doc: 'How ids of new sessions are made.' },
      restart: { kind: 'choice', of: ['refire', 'discard', 'last_commit'], default: 'refire', whose: 'host',
        doc: 'What a resume does about an input whose turn was cut off: `refire` goes on with the local files and gives the input to the agent again, `discard` drops it, `last_commit` sets the local tree aside, returns to the last commit and gives the input again; without a commit it is `refire`.' },
      resume_partial: { kind: 'replaced', by: 'restart', values: { true: 'refire', false: 'discard' }, whose: 'host',
        doc: 'The old name of `restart`.' },
      keep_stale: {
        count: { kind: 'integer', default: 1, min: 0, max: 1000, whose: 'host',
          doc: 'How many trees that were set aside as older than the store are kept per session, newest first.' },
        days: { kind: 'number', default: 7, min: 0, max: 36_500, whose: 'host',
          doc: 'Days after which the others are removed. Trees with turns that the store never got are always kept.' },
      },
    },
    storage: {
      root: { kind: 'path', default: '~/.nexus', whose: 'host',
        doc: 'Directory of app- and agent-scope storage.' },
      busy_timeout_ms: { kind: 'integer', default: 5000, min: 0, max: 600_000, whose: 'host',
        doc: 'How long a statement waits for a locked database, in milliseconds.' },
      cache_size_kb: { kind: 'integer', default: 2048, min: 1, max: 4_194_304, whose: 'host',
        doc: 'Page cache of one database connection, in KiB.' },
      pool_max_idle: { kind: 'integer', default: 2, min: 0, max: 1024, whose: 'host',
        doc: 'Idle read connections kept per database; at most `pool_max_open`.' },
      pool_max_open: { kind: 'integer', default: 4, min: 1, max: 1024, whose: 'host',
        doc: 'Read connections per database.' },
      secure_delete: { kind: 'boolean', default: false, whose: 'host',
        doc: 'Whether SQLite overwrites deleted content with zeros; slower.' },
    },
    object_store: {
      backend: { kind: 'string', default: '', whose: 'host',
        doc: 'Registered name of the backend. Empty: sessions live on local disk only.' },
      bucket: { kind: 'string', default: '', whose: 'host',
        doc: 'The bucket, or what stands for one. Required with a backend.' },
      prefix: { kind: 'string', default: '', whose: 'host',
        doc: 'Object key below which everything is stored, without `/` at either end. Not a file path.' },
      region: { kind: 'string', default: '', whose: 'host',
        doc: 'Region, where the backend needs one.' },
      endpoint: { kind: 'string', default: '', whose: 'host',
        doc: "URL of a store that isn't the vendor's own." },
      credentials_file: { kind: 'path', default: '', whose: 'host',
        doc: "File of credentials in the vendor's format. Empty: the vendor's default chain." },
      failure_policy: { kind: 'choice', of: ['degrade', 'strict'], default: 'degrade', whose: 'host',
        doc: 'While the store fails: `degrade` goes on locally, `strict` vetoes new input until a snapshot succeeds.' },
      options: { kind: 'map', whose: 'host',
        doc: "The backend's own options; the backend validates them." },
      stale_local: { kind: 'choice', of: ['set-aside', 'refuse', 'keep'], default: 'set-aside', whose: 'host',
        doc: 'A local tree that is older than the store is moved beside the sessions, fails the boot, or is used as it is.' },
      on_lost: { kind: 'choice', of: ['stop', 'overwrite'], default: 'stop', whose: 'host',
        doc: 'When another host has committed to the session meanwhile: write nothing more, or write over it.' },
      on_mixed: { kind: 'choice', of: ['auto', 'warn', 'fail'], default: 'auto', whose: 'host',
        doc: 'When a restored file is newer than the commit it was restored from: `warn` reports it, `fail` fails the boot, `auto` fails for databases and the conversation and reports other files.' },
      min_rate_kib_s: { kind: 'integer', default: 16, min: 1, max: 1_048_576, whose: 'host',
        doc: 'A transfer that stays below this rate for 30 s has failed, in KiB/s. Nothing else limits one that moves.' },
      layout: { kind: 'choice', of: ['mirror', 'auto', 'versioned'], default: 'mirror', whose: 'host',
        doc: 'How sessions lie in the store: `mirror` as files under their own names, `versioned` as commits that nothing overwrites. `auto`: a session keeps the layout it has, and a new one is versioned where the backend has `get` and `putIfAbsent`.' },
      ownership: { kind: 'choice', of: ['detect', 'claim', 'lazy', 'refuse'], default: 'detect', whose: 'host',
        doc: 'What a boot does about another live owner. `mirror` can only `detect` and report it. `versioned` takes the session from the host before: at boot (`claim`, also where this key is left out) or with the first commit (`lazy`); `refuse` claims at boot too, and fails the boot while the owner looks live.' },
      keep: {
        generations: { kind: 'integer', default: 64, min: 2, max: 1_000_000, whose: 'host',
          doc: 'A versioned generation is kept until so many newer ones exist and it is `days` old. The newest 64 are always kept.' },
        days: { kind: 'number', default: 7, min: 0, max: 36_500, whose: 'host',
          doc: 'Days that a versioned generation is kept, unless more than `at_most` exist.' },
        at_most: { kind: 'integer', default: 1000, min: 2, max: 1_000_000, whose: 'host',
          doc: 'Versioned generations that are kept at most, however young, beyond the newest 64.' },
      },
      verify_content: { kind: 'choice', of: ['auto', 'always'], default: 'auto', whose: 'host',
        doc: 'Whether a versioned commit reads every file (`always`), or those whose times or size say that they may have changed.' },
      migrate: { kind: 'choice', of: ['ask', 'auto'], notYet: ['auto'], default: 'ask', whose: 'host',
        doc: 'What a boot under layout `versioned` does about a session that lies in the store in the mirror layout: name the command that moves it (`ask`), or move it (`auto`).' },
      accept_empty: { kind: 'boolean', default: false, whose: 'host',
        doc: 'Begin anew in a store that says that it has no such session, although this machine committed it there. Without it `strict` refuses, and `degrade` reports it.' },
      ttl: { kind: 'duration', default: '0', min: '0', max: '36500d', as: 'ttlMs', whose: 'host',
        doc: 'How long after its last commit `store gc` may remove a versioned session from the store; `0`: never.' },
    },
  },
  journal: {
    fsync: { kind: 'choice', of: ['turn-boundary', 'every-event', 'none'], default: 'turn-boundary', whose: 'host',
      doc: 'When the journal is fsynced: at the end of a turn, after every event (concurrent ones share one), or never.' },
    retain_days: { kind: 'integer', default: 30, min: 0, max: 36_500, whose: 'host',
      doc: 'Days after which sealed journal segments of committed sessions are removed; `0` removes none.' },
    rotate_size_mb: { kind: 'mebibytes', default: 4, min: 0.001, max: 64, as: 'rotateBytes', whose: 'session',
      doc: 'Size in MiB from which the active segment is sealed at the end of a turn.' },
    exclude_events: { kind: 'list', of: 'event types', default: ['core.tick'], whose: 'session',
      doc: 'Events that are dispatched but not journaled.' },
  },
  engine: {
    shutdown: {
      drain_timeout: { kind: 'duration', default: '30s', min: '0', max: '24d', as: 'drainTimeoutMs', whose: 'host',
        doc: 'How long a graceful stop may take in all.' },
    },
  },
  plugins: {
    active: { kind: 'list', of: 'plugin ids', whose: 'session',
      doc: 'Plugins to run, of those that the program passes. Not written: all of them. `[]`: none.' },
    '*': { kind: 'map', as: 'blocks', whose: 'session',
      doc: 'The block of the plugin with that id, checked by its own schema.' },
  },
} as const

/** The table as what it is read as; a row that lacks a column fails here. */
const TABLE: ConfigBlock = CONFIG_KEYS

/** Whether a row of the table is a key; the others are blocks. */
export function isConfigKey(row: ConfigKey | ConfigBlock): row is ConfigKey {
  return row.kind !== undefined
}

/** The rows of a block, by name. */
export function configRows(block: ConfigBlock): [string, ConfigKey | ConfigBlock][] {
  return Object.entries(block) as [string, ConfigKey | ConfigBlock][]
}

/** Every key below a block, depth first, with the path to it. */
export function* configKeys(
  block: ConfigBlock = TABLE,
  path: readonly string[] = [],
): Generator<readonly [path: readonly string[], key: ConfigKey]> {
  for (const [name, row] of configRows(block)) {
    if (isConfigKey(row)) yield [[...path, name], row]
    else yield* configKeys(row, [...path, name])
  }
}

/** The row at a path, or undefined where the table ends before. */
export function configRowAt(path: readonly (string | number)[]): ConfigKey | ConfigBlock | undefined {
  let row: ConfigKey | ConfigBlock | undefined = TABLE
  for (const part of path) {
    if (row === undefined || isConfigKey(row)) return undefined
    row = Object.hasOwn(row, part) ? row[part] : row['*']
  }
  return row
}

/** The name that a key or block has in {@link EngineConfig}. */
export function outputName(name: string, row: ConfigKey | ConfigBlock): string {
  return row.kind !== undefined && row.as !== undefined
    ? row.as
    : name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/** Where the value at a path stands in {@link EngineConfig}. */
export function outputPath(path: readonly string[]): string[] {
  return path.map((name, depth) => outputName(name, configRowAt(path.slice(0, depth + 1)) as ConfigKey | ConfigBlock))
}
