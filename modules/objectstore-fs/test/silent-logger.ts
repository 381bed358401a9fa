import type { Logger } from '@nexus/objectstore'

const drop = (): void => undefined

export const silentLogger: Logger = { debug: drop, info: drop, warn: drop, error: drop }
