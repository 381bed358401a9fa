import { register } from '@nexus/objectstore'
import { openHexBackend } from './driver.js'

register('hex', openHexBackend)
