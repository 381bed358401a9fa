export { EventBus, type EventBusOptions, type EventSubscribing } from './bus/event-bus.ts'
export type { Causation, EmitOptions, EventEmitting, EventHandler, NexusEvent, VetoOutcome } from './bus/event.ts'
export type { AnyEventType, EventMap, EventType, FileChangePayload, LlmUsage, PayloadOf } from './bus/event-map.ts'
export type { SubscribeOptions } from './bus/subscription.ts'
export { systemClock, type Clock, type TimerHandle } from '@nexus/host'
export { ConfigError, type ConfigPath, type ConfigProblem, type TextPosition } from './config/config-problem.ts'
export type { ConfigInput, EngineConfig, FsyncPolicy, LogLevel, ObjectStoreSettings } from './config/engine-config.ts'
export {
  configFromObject,
  configReference,
  loadConfigFile,
  parseConfig,
  type LoadedConfig,
  type ParseConfigOptions,
} from './config/load.ts'
export type { DurabilityStatus } from '@nexus/durability'
export { publishEvalRun, type PublishedEvalRun, type PublishEvalRunOptions } from './publish-eval-run.ts'
export { sessionKeys, type SessionKeys } from '@nexus/durability/names'
export type { Manifest, ManifestEntry } from '@nexus/durability'
export type { SnapshotResult, SnapshotTrigger } from '@nexus/durability'
export { StaleLocalTreeError } from '@nexus/durability/names'
export { Engine, type InputOutcome } from './engine.ts'
export type { EngineOptions } from './engine-options.ts'
export type { Failpoint } from '@nexus/host'
export { silentLogger, type Logger, type LogLine } from '@nexus/host'
export { openSession, type OpenSessionOptions, type Session, type StoreInput } from './open-session.ts'
export type { EngineInfo, Plugin, PluginContext, PluginJournal, PluginSubscription } from './plugins/plugin.ts'
export type { PluginBus } from './plugins/plugin-bus.ts'
export type { StandardSchema } from './plugins/standard-schema.ts'
export { generateSessionId, isSessionId, validateSessionId, type SessionIdFormat } from '@nexus/durability/names'
export type { SessionLock } from '@nexus/host'
export type { SessionMeta } from './session/meta.ts'
export { sessionTreeWriters, type SessionTreeWriter } from './session/raw-writers.ts'
export { SessionLockedError } from '@nexus/host'
export { PathEscapeError } from '@nexus/host'
export type { SessionWorkspace, WriteOptions } from './session/workspace.ts'
export type { EngineStatus, Phase } from './status.ts'
export { ENGINE_VERSION } from './version.ts'
export type { Storage, StorageManager, StorageScope } from '@nexus/storage'
