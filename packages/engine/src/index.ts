// What everything here throws
export { isNexusError, NexusError, type ErrorCode } from '@nexus/errors'

// A run: boot it, give it inputs, commit, stop
export { Engine } from './engine.ts'
export type { EngineOptions, StopOptions } from './engine-options.ts'
export type { InputOutcome } from './lifecycle/input-line.ts'
export type { EngineStatus, Phase } from './lifecycle/status.ts'

// A session, taken once more
export type {
  BranchedTurn,
  BranchOptions,
  BranchReport,
  ChangedFile,
  FileState,
  SessionTotals,
} from './replay/branch-report.ts'
export type { ReplayDifference, ReplayedEvent, ReplayOptions, ReplayReport } from './replay/replay-report.ts'

// A session without plugins: a directory that survives
export { openSession, type OpenSessionOptions, type Session, type StoreInput } from './open-session.ts'
export type { TurnOutcome } from './lifecycle/take-turn.ts'
export { type PoolEnd, SessionPool, type SessionPoolOptions } from './session-pool.ts'

// The session's parts: files, databases, journal, lock
export type { SessionWorkspace, WriteOptions } from './session/workspace.ts'
export type { SessionMeta } from './session/meta.ts'
export type { Storage, StorageManager, StorageScope } from '@nexus/storage'
export type { SessionJournal } from './plugins/plugin-views.ts'
export { PathEscapeError, SessionLockedError } from '@nexus/host'
export { sessionTreeWriters, type SessionTreeWriter } from './session/files/raw-writers.ts'

// What the store holds, and how that stands
export type { CommitOptions, DurabilityStatus, SnapshotResult, SnapshotTrigger } from '@nexus/durability'
export { SessionOwnedError, StaleLocalTreeError } from '@nexus/durability/names'
export { publishEvalRun, type PublishedEvalRun, type PublishEvalRunOptions } from './publish-eval-run.ts'

// Events
export type { EventSubscribing, SessionBus } from './bus/event-bus.ts'
export type { Causation, EmitOptions, EventEmitting, EventHandler, NexusEvent, VetoOutcome } from './bus/event.ts'
export type { AnyEventType, EventMap, EventType, FileChangePayload, PayloadOf } from './bus/event-map.ts'
export type { LlmUsage } from './bus/events.ts'
export type { SubscribeOptions } from './bus/subscription.ts'

// Plugins
export type { EngineInfo, Plugin, PluginContext, PluginSubscription } from './plugins/plugin.ts'
export type { PluginJournal, PluginSession, PluginStorage } from './plugins/plugin-views.ts'
export type { PluginBus } from './plugins/plugin-bus.ts'
export type { StandardSchema } from './plugins/standard-schema.ts'

// Configuration
export { ConfigError, type ConfigPath, type ConfigProblem, type TextPosition } from './config/document/problem.ts'
export type { ConfigInput, EngineConfig, FsyncPolicy, LogLevel, ObjectStoreSettings } from './config/engine-config.ts'

// Time and logs, to be replaced by an embedder's own
export {
  silentLogger,
  systemClock,
  type Clock,
  type Failpoint,
  type Logger,
  type LogLine,
  type TimerHandle,
} from '@nexus/host'
