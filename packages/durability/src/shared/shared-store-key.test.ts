import { describe, expect, it } from 'vitest'
import { sharedStoreKey } from './shared-store-key.ts'

const ROOT = '/data/nexus'

describe('the key of a shared store', () => {
  it.each([
    ['plugins/nexus.budget/store.db'],
    ['plugins/nexus.agent.sub/researcher/store.db'],
    ['agents/agent-1/plugins/nexus.budget/store.db'],
  ])('is its path below the storage root: %s', (path) => {
    expect(sharedStoreKey(`${ROOT}/${path}`, ROOT, 's1')).toBe(path)
  })

  it.each([
    ['a session path', 'sessions/s1/plugins/p/store.db'],
    ['a key that names the session', 'plugins/s1/store.db'],
    ['an agent that is named like the session', 'agents/s1/plugins/p/store.db'],
    ['another file', 'plugins/p/cache.db'],
    ['no plugin', 'plugins/store.db'],
    ['no agent', 'agents/plugins/p/store.db'],
    ['a path outside', '../elsewhere/plugins/p/store.db'],
    ['the root itself', ''],
  ])('is refused for %s', (_what, path) => {
    expect(() => sharedStoreKey(`${ROOT}/${path}`, ROOT, 's1')).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    )
  })
})
