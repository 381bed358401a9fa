import * as v from 'valibot'
import type { EngineConfig, ObjectStoreSettings } from './engine-config.ts'
import { absolutePath, type PathBase } from './file-path.ts'
import {
  anyText,
  block,
  duration,
  flag,
  integer,
  key,
  number,
  oneOf,
  openMap,
  optionalKey,
  path,
  text,
  unlessWritten,
  NOT_A_MAP,
  type KeySchema,
} from './schema-keys.ts'

const MIB = 2 ** 20
const AGENT_ID = /^$|^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/
/** The longest a timer can wait, in whole days. */
const LONGEST_TIMER = '24d'
/** Resume and replay are built on these: without them a session can't tell where its turns began and ended. */
const ALWAYS_JOURNALED: readonly string[] = ['io.input', 'agent.turn.start', 'agent.turn.end']

const objectStore = block({
  backend: text('', 'Registered name of the backend. Empty: sessions live on local disk only.'),
  bucket: text('', 'The bucket, or what stands for one. Required with a backend.'),
  prefix: text('', 'Object key below which everything is stored, without `/` at either end. Not a file path.'),
  region: text('', 'Region, where the backend needs one.'),
  endpoint: text('', "URL of a store that isn't the vendor's own."),
  credentials_file: path('', "File of credentials in the vendor's format. Empty: the vendor's default chain."),
  failure_policy: oneOf(
    ['degrade', 'strict'],
    'degrade',
    'While the store fails: `degrade` goes on locally, `strict` vetoes new input until a snapshot succeeds.',
  ),
  options: key(openMap(), {}, { kind: 'map', doc: "The backend's own options; the backend validates them." }),
  stale_local: oneOf(
    ['set-aside', 'refuse', 'keep'],
    'set-aside',
    'A local tree that is older than the store is moved beside the sessions, fails the boot, or is used as it is.',
  ),
  on_lost: oneOf(
    ['stop', 'overwrite'],
    'stop',
    'When another host has committed to the session meanwhile: write nothing more, or write over it.',
  ),
  on_mixed: oneOf(
    ['warn', 'fail'],
    'warn',
    'When a restored file is newer than the commit it was restored from: report it, or fail the boot.',
  ),
  layout: oneOf(['mirror', 'versioned'], 'mirror', 'How sessions lie in the store. Only `mirror` is supported yet.'),
  ownership: oneOf(
    ['detect', 'claim', 'refuse'],
    'detect',
    'What a boot does about another live owner. Only `detect` is supported yet.',
  ),
  keep_generations: optionalKey(v.unknown(), { kind: 'integer', doc: 'Generations to keep. Not supported yet.' }),
  keep_days: optionalKey(v.unknown(), { kind: 'integer', doc: 'Days to keep generations for. Not supported yet.' }),
})

const core = block({
  log_level: oneOf(['trace', 'debug', 'info', 'warn', 'error'], 'info', 'The least severe lines that are logged.'),
  tick_interval: duration('1s', '10ms', LONGEST_TIMER, 'Time between two `core.tick` events.'),
  agent_id: key(
    v.pipe(
      anyText(),
      v.regex(AGENT_ID, 'must be up to 128 of A-Z a-z 0-9 _ - and start with a letter or digit: it names a directory'),
    ),
    '',
    { kind: 'string', doc: 'Whose agent-scope storage is used. Empty: agent scope is app scope.' },
  ),
  sessions: block({
    root: path('~/.nexus/sessions', 'Directory of the session trees.'),
    retention: duration(
      '30d',
      '0',
      '36500d',
      'Age from which ended sessions are removed from this disk; `0` keeps them for ever. While the key is not written, only sessions that a store holds are removed.',
    ),
    id_format: oneOf(['timestamp', 'datetime_short', 'hex'], 'timestamp', 'How ids of new sessions are made.'),
    resume_partial: flag(true, 'Whether the input of a turn that was cut off is submitted once more on resume.'),
  }),
  storage: block({
    root: path('~/.nexus', 'Directory of app- and agent-scope storage.'),
    busy_timeout_ms: integer(5000, 0, 600_000, 'How long a statement waits for a locked database, in milliseconds.'),
    cache_size_kb: integer(2048, 1, 4_194_304, 'Page cache of one database connection, in KiB.'),
    pool_max_idle: integer(2, 0, 1024, 'Idle read connections kept per database; at most `pool_max_open`.'),
    pool_max_open: integer(4, 1, 1024, 'Read connections per database.'),
  }),
  object_store: objectStore,
})

const journal = block({
  fsync: oneOf(
    ['turn-boundary', 'every-event', 'none'],
    'turn-boundary',
    'When the journal is fsynced: at the end of a turn, after every event (concurrent ones share one), or never.',
  ),
  retain_days: integer(
    30,
    0,
    36_500,
    'Days after which journals of ended sessions are removed; `0` keeps them for ever.',
  ),
  rotate_size_mb: number(4, 0.001, 64, 'Size in MiB from which the active segment is sealed at the end of a turn.'),
  exclude_events: key(
    v.array(
      v.pipe(
        anyText(),
        v.nonEmpty('is no event type'),
        v.check((type) => !ALWAYS_JOURNALED.includes(type), 'is always journaled: resuming a session is built on it'),
      ),
      'must be a list of event types',
    ),
    ['core.tick'],
    { kind: 'list of event types', doc: 'Events that are dispatched but not journaled.' },
  ),
})

const plugins = unlessWritten(
  v.objectWithRest(
    {
      active: key(v.array(v.pipe(anyText(), v.nonEmpty('is no plugin id')), 'must be a list of plugin ids'), [], {
        kind: 'list of plugin ids',
        doc: 'Plugins to run, of those that the program brings. Empty: all of them.',
      }),
    },
    v.nullable(openMap()),
    NOT_A_MAP,
  ),
  {},
) as KeySchema<{ active: string[] } & Record<string, unknown>>

const configSchema = block({
  core,
  journal,
  engine: block({
    shutdown: block({
      drain_timeout: duration('30s', '0', LONGEST_TIMER, 'How long a graceful stop may take in all.'),
    }),
  }),
  plugins,
})

/** What {@link schemaTree} walks. */
export function rootSchema(): v.GenericSchema {
  return configSchema
}

/** A value that doesn't fit its schema. */
export interface SchemaIssue {
  readonly path: readonly (string | number)[]
  /** Continues the name of the key. */
  readonly message: string
}

/**
 * The configuration with every default applied, or what is wrong with the values. Unknown keys must have been taken out
 * before: they are reported in one go, which the schema doesn't.
 *
 * @param facts what can't be seen from the values alone
 */
export function parseValues(
  input: unknown,
  facts: PathBase & { readonly retentionExplicit: boolean; readonly backendGiven: boolean },
): { readonly config: EngineConfig } | { readonly issues: readonly SchemaIssue[] } {
  const result = v.safeParse(configSchema, input, { abortPipeEarly: true })
  if (!result.success) {
    const issues = result.issues.map(({ path: at = [], message }) => ({
      path: at.map((item) => item.key as string | number),
      message,
    }))
    return { issues }
  }
  const { core: c, journal: j, engine, plugins: p } = result.output
  const { active, ...blocks } = p
  const config: EngineConfig = {
    core: {
      logLevel: c.log_level,
      tickIntervalMs: c.tick_interval,
      agentId: c.agent_id,
      sessions: {
        root: absolutePath(c.sessions.root, facts),
        retentionMs: c.sessions.retention,
        retentionExplicit: facts.retentionExplicit,
        idFormat: c.sessions.id_format,
        resumePartial: c.sessions.resume_partial,
      },
      storage: {
        root: absolutePath(c.storage.root, facts),
        busyTimeoutMs: c.storage.busy_timeout_ms,
        cacheSizeKb: c.storage.cache_size_kb,
        poolMaxIdle: Math.min(c.storage.pool_max_idle, c.storage.pool_max_open),
        poolMaxOpen: c.storage.pool_max_open,
      },
      objectStore:
        c.object_store.backend === '' && !facts.backendGiven ? undefined : storeSettings(c.object_store, facts),
    },
    journal: {
      fsync: j.fsync,
      retainDays: j.retain_days,
      rotateBytes: Math.round(j.rotate_size_mb * MIB),
      excludeEvents: j.exclude_events,
    },
    engine: { shutdown: { drainTimeoutMs: engine.shutdown.drain_timeout } },
    plugins: { active, blocks },
  }
  return { config }
}

function storeSettings(parsed: v.InferOutput<typeof objectStore>, base: PathBase): ObjectStoreSettings {
  return {
    backend: parsed.backend,
    bucket: parsed.bucket,
    prefix: parsed.prefix,
    region: parsed.region,
    endpoint: parsed.endpoint,
    credentialsFile: parsed.credentials_file === '' ? '' : absolutePath(parsed.credentials_file, base),
    failurePolicy: parsed.failure_policy,
    options: parsed.options,
    staleLocal: parsed.stale_local,
    onLost: parsed.on_lost,
    onMixed: parsed.on_mixed,
    layout: 'mirror',
    ownership: 'detect',
  }
}
