/** How much is logged. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error'

/** When the journal is fsynced. */
export type FsyncPolicy = 'turn-boundary' | 'every-event' | 'none'

/** The `core.object_store` block. Strings are empty where nothing was configured. */
export interface ObjectStoreSettings {
  /** Registered name of the backend; empty only when the embedder hands a backend over himself. */
  readonly backend: string
  readonly bucket: string
  readonly prefix: string
  readonly region: string
  readonly endpoint: string
  /** Absolute, or empty. */
  readonly credentialsFile: string
  readonly failurePolicy: 'degrade' | 'strict'
  /** The driver's own options, as they were written. */
  readonly options: Readonly<Record<string, unknown>>
  readonly staleLocal: 'set-aside' | 'refuse' | 'keep'
  readonly onLost: 'stop' | 'overwrite'
  readonly onMixed: 'warn' | 'fail'
  readonly layout: 'mirror'
  readonly ownership: 'detect'
}

/** A validated configuration: every default applied, paths absolute, durations in milliseconds, sizes in bytes. */
export interface EngineConfig {
  readonly core: {
    readonly logLevel: LogLevel
    readonly tickIntervalMs: number
    /** Empty when none is configured. */
    readonly agentId: string
    readonly sessions: {
      readonly root: string
      /** 0 keeps sessions for ever. */
      readonly retentionMs: number
      /** Whether the key was written: the default never removes a session that exists nowhere else. */
      readonly retentionExplicit: boolean
      readonly idFormat: 'timestamp' | 'datetime_short' | 'hex'
      readonly resumePartial: boolean
    }
    readonly storage: {
      readonly root: string
      readonly busyTimeoutMs: number
      readonly cacheSizeKb: number
      readonly poolMaxIdle: number
      readonly poolMaxOpen: number
    }
    /** Undefined without a backend: nothing of the object store runs then. */
    readonly objectStore: ObjectStoreSettings | undefined
  }
  readonly journal: {
    readonly fsync: FsyncPolicy
    /** 0 keeps journals for ever. */
    readonly retainDays: number
    readonly rotateBytes: number
    readonly excludeEvents: readonly string[]
  }
  readonly engine: { readonly shutdown: { readonly drainTimeoutMs: number } }
  readonly plugins: {
    readonly active: readonly string[]
    /** Each plugin's own block by plugin id, as it was written. */
    readonly blocks: Readonly<Record<string, unknown>>
  }
}

/** A duration as written in YAML: `30d`, `12h`, `5m`, `10s`, `250ms`, `1h30m`; the number 0. */
export type DurationInput = string | 0

/** What `Engine.fromConfig` takes: the keys of the YAML file. Everything has a default. */
export interface ConfigInput {
  readonly core?: {
    readonly log_level?: LogLevel
    readonly tick_interval?: DurationInput
    readonly agent_id?: string
    readonly sessions?: {
      readonly root?: string
      readonly retention?: DurationInput
      readonly id_format?: 'timestamp' | 'datetime_short' | 'hex'
      readonly resume_partial?: boolean
    }
    readonly storage?: {
      readonly root?: string
      readonly busy_timeout_ms?: number
      readonly cache_size_kb?: number
      readonly pool_max_idle?: number
      readonly pool_max_open?: number
    }
    readonly object_store?: {
      readonly backend?: string
      readonly bucket?: string
      readonly prefix?: string
      readonly region?: string
      readonly endpoint?: string
      readonly credentials_file?: string
      readonly failure_policy?: 'degrade' | 'strict'
      readonly options?: Readonly<Record<string, unknown>>
      readonly stale_local?: 'set-aside' | 'refuse' | 'keep'
      readonly on_lost?: 'stop' | 'overwrite'
      readonly on_mixed?: 'warn' | 'fail'
      readonly layout?: 'mirror'
      readonly ownership?: 'detect'
    }
  }
  readonly journal?: {
    readonly fsync?: FsyncPolicy
    readonly retain_days?: number
    readonly rotate_size_mb?: number
    readonly exclude_events?: readonly string[]
  }
  readonly engine?: { readonly shutdown?: { readonly drain_timeout?: DurationInput } }
  readonly plugins?: { readonly active?: readonly string[]; readonly [pluginId: string]: unknown }
}
