import { describe, expect, it } from 'vitest'
import { sessionKeys } from './keys.ts'

describe('sessionKeys', () => {
  it('keeps everything of a session beside its tree, so that nothing of it hydrates into the tree', () => {
    const keys = sessionKeys('s1')
    expect(keys).toEqual({
      tree: 'sessions/s1',
      manifestPrefix: 'sessions/s1.manifest',
      manifest: 'sessions/s1.manifest/manifest.json',
      marker: 'sessions/s1.snapshot.json',
      owner: 'sessions/s1.owner/owner.json',
    })
    const { tree, ...others } = keys
    for (const key of Object.values(others)) expect(key.startsWith(`${tree}/`)).toBe(false)
  })

  it.each(['../x', 'a/b', '.', '', 'x.manifest', 'x\0y', 'CON', 'a'.repeat(300), '__proto__'])(
    'refuses the id %j before any key exists',
    (id) => {
      expect(() => sessionKeys(id)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    },
  )
})
