// What runs a session: loaded by the first boot, with the bindings of SQLite and zstd, so that importing the engine is cheap.
export { bootSession } from './lifecycle/boot.ts'
export { refirePartialTurn } from './lifecycle/partial-turn.ts'
export { startRetention } from './lifecycle/retention.ts'
export { abandonSession, detachSession, shutdownSession } from './lifecycle/shutdown.ts'
